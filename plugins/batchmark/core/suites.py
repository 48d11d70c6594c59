"""What a run may be asked for, by name; the job container holds the grids themselves."""

SUITES = ("smoke", "blog", "sam", "precision", "building_blocks", "training", "own")
DTYPES = ("float32", "float64", "tf32", "float16", "bfloat16")
OWN_DTYPES = "suite"  # instead of one of these: the suite's own, row by row
MAX_REPEATS = 20
