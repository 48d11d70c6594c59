"""Tests the detector on steps that are put into copies of real histories."""
