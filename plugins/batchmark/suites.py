"""What a run may be asked for, by name; the job container holds the grids themselves."""

SUITES = ("smoke", "blog", "sam")
DTYPES = ("float32", "float64", "float16", "bfloat16")
MAX_REPEATS = 20
