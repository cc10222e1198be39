"""The web page at `/`: files that are served as they are, some of them shared with `report.html`."""
