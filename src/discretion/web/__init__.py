"""The web app: the whole job in a browser, on this computer or for a few colleagues. Nothing imports it."""
