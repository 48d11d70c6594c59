"""The names that a run can be requested by; the job container defines the suites themselves."""

SUITES = ("smoke", "blog", "sam", "precision", "building_blocks", "training", "own")
DTYPES = ("float32", "float64", "tf32", "float16", "bfloat16")
OWN_DTYPES = "suite"  # each row has the number format that the suite gives it
MAX_REPEATS = 20
