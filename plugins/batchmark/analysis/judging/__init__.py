"""Decides whether a difference is real, based on noise and a significance test."""
