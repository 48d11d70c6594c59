"""One run's samples: pooled, compared, judged, priced."""
