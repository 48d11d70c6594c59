"""The names that a run can be requested by; the job container defines the suites themselves."""

# With what the trigger form says of each.
SUITES = {
    "smoke": "small sizes of everything; a job takes about a minute, up to two on a busy machine",
    "blog": "matmul, convolutions and filters at a published comparison's sizes; minutes a job",
    "sam": "the same at more sizes, the larger ones for GPUs; slow on a CPU",
    "precision": "matrix products and convolutions in every precision",
    "building_blocks": "FFT, sort, sum and attention, from small to large",
    "training": "training steps of a CNN and of ResNet-50, and ResNet-50's inference",
    "own": "your own workloads",
}
DTYPES = ("float32", "float64", "tf32", "float16", "bfloat16")
CUSTOM = "custom"  # the suite of documents whose workload and axes were given by hand
OWN_DTYPES = "suite"  # each row has the number format that the suite gives it
MAX_REPEATS = 20
