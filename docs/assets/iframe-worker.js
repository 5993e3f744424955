// Search without a server: browsers start no workers for pages opened from disk, so the search runs in a hidden frame.
// The theme looks for the name IFrameWorker; messages go to and fro as events.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>window.postMessage = (data) => frameElement.answer(data)</script><script src="${url}"></script>`;
      frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
