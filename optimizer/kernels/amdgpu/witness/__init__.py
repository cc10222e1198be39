"""An independent witness of emitted gfx942 text: an interpreter that refuses what the hardware leaves undefined."""
