"""Tests the detector on steps inserted into copies of real histories."""
