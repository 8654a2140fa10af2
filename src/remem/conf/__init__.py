"""Presets and configs, shipped inside the package so that a wheel has them."""
