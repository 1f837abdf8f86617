"""Composes inspection, planning, rendering and output into init, regen and check."""
