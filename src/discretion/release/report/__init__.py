"""The report of a release as one HTML file: a public version, and an internal one with every figure.

`page.render` puts it together: facts are gathered into small frozen objects, drawn as SVG, and set by one template.
"""
