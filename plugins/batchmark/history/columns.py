"""The history's columns; terraform/modules/analytics/history_columns.json documents them."""

from __future__ import annotations

import pyarrow as pa

STRING = pa.string()
INT = pa.int32()
BIGINT = pa.int64()
DOUBLE = pa.float64()
BOOLEAN = pa.bool_()
TIMESTAMP = pa.timestamp("us")  # UTC without a time zone, as Athena has timestamps

SCHEMA = pa.schema(
    [
        ("schema_version", INT),
        ("run_id", STRING),
        ("job_id", STRING),
        ("job_attempt", INT),
        ("repeat", INT),
        ("purpose", STRING),
        ("recorded_at", TIMESTAMP),
        ("raw_key", STRING),
        ("workload", STRING),
        ("parameters", STRING),
        ("dtype", STRING),
        ("target", STRING),
        ("requested_device", STRING),
        ("actual_device", STRING),
        ("status", STRING),
        ("reason", STRING),
        ("implementation_name", STRING),
        ("implementation_version", STRING),
        ("implementation_threads", INT),
        ("instance_type", STRING),
        ("cpu_model", STRING),
        ("cpu_threads", INT),
        ("compute_threads", INT),
        ("memory_bytes", BIGINT),
        ("gpu_model", STRING),
        ("gpu_count", INT),
        ("gpu_memory_bytes", BIGINT),
        ("driver_version", STRING),
        ("cuda_version", STRING),
        ("torch_version", STRING),
        ("python_version", STRING),
        ("kernel", STRING),
        ("image_digest", STRING),
        ("image", STRING),
        ("commit", STRING),
        ("branch", STRING),
        ("label", STRING),
        ("ami_id", STRING),
        ("gpu_application_clock_hz", DOUBLE),
        ("gpu_daemons", STRING),
        ("root_volume", STRING),
        ("code_version", STRING),
        ("compute_environment", STRING),
        ("region", STRING),
        ("purchase_option", STRING),
        ("samples", INT),
        ("input_sets", INT),
        ("stopping", STRING),
        ("relative_half_width", DOUBLE),
        ("throttled_samples", INT),
        ("outlier_samples", INT),
        ("multimodal", BOOLEAN),
        ("cpu_steal_share", DOUBLE),
        ("cpu_wait_share", DOUBLE),
        ("median_seconds", DOUBLE),
        ("median_low_seconds", DOUBLE),
        ("median_high_seconds", DOUBLE),
        ("min_seconds", DOUBLE),
        ("p25_seconds", DOUBLE),
        ("p75_seconds", DOUBLE),
        ("p95_seconds", DOUBLE),
        ("max_seconds", DOUBLE),
        ("relative_spread", DOUBLE),
        ("cold_seconds", DOUBLE),
        ("allocate_seconds", DOUBLE),
        ("host_to_device_seconds", DOUBLE),
        ("compute_seconds", DOUBLE),
        ("device_to_host_seconds", DOUBLE),
        ("flops", BIGINT),
        ("bytes_moved", BIGINT),
        ("flops_per_second", DOUBLE),
        ("bytes_per_second", DOUBLE),
        ("compute_ceiling_share", DOUBLE),
        ("memory_ceiling_share", DOUBLE),
        ("peak_memory_bytes", BIGINT),
        ("energy_joules", DOUBLE),
        ("relative_error", DOUBLE),
        ("process_seconds", DOUBLE),
        ("batch_seconds", DOUBLE),
        ("price_usd_per_hour", DOUBLE),
        ("job_cost_usd", DOUBLE),
    ]
)
# These are in the names of the folders, not in the files.
PARTITION_KEYS = ("suite", "month")
ALL_COLUMNS = (*SCHEMA.names, *PARTITION_KEYS)
# The suite of all results that came from other tools.
IMPORTED = "imported"
