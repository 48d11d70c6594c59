"""The real job as an image of its own: it measures few rows, each for a moment."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
