"""Convolutions, pools and sampling of channels-last images."""
