-- From which point of its grid each GPU target beats each CPU target, in each series' latest run
WITH jobs AS (
  SELECT *, run_id = first_value(run_id) OVER (series ORDER BY recorded_at DESC, run_id DESC) AS is_latest
  FROM history
  WHERE status = 'measured' AND parameters NOT LIKE '%"metric":%' -- seconds, not what your own job told
  WINDOW series AS (PARTITION BY ${series})
),
latest AS (
  SELECT ${series}, requested_device, max(flops) AS flops, avg(median_seconds) AS seconds
  FROM jobs
  WHERE is_latest
  GROUP BY ${series}, requested_device
),
points AS (
  SELECT
    gpu.suite,
    gpu.workload,
    gpu.dtype,
    gpu.target AS gpu_target,
    gpu.gpu_model,
    cpu.target AS cpu_target,
    cpu.cpu_model,
    gpu.parameters,
    gpu.flops,
    cpu.seconds / gpu.seconds AS speedup
  FROM latest AS gpu
  JOIN latest AS cpu
    ON cpu.suite = gpu.suite
    AND cpu.workload = gpu.workload
    AND cpu.parameters = gpu.parameters
    AND cpu.dtype = gpu.dtype
  WHERE gpu.actual_device = 'cuda' AND cpu.requested_device = 'cpu' -- never what fell back to the CPU
)
SELECT
  suite,
  workload,
  dtype,
  gpu_target,
  gpu_model,
  cpu_target,
  cpu_model,
  count(*) AS points_compared,
  count(*) FILTER (WHERE speedup > 1) AS points_gpu_is_faster,
  min_by(parameters, flops) FILTER (WHERE speedup > 1) AS smallest_gpu_is_faster,
  max_by(parameters, flops) FILTER (WHERE speedup <= 1) AS largest_cpu_is_faster,
  min(speedup) AS least_speedup,
  max(speedup) AS greatest_speedup
FROM points
GROUP BY suite, workload, dtype, gpu_target, gpu_model, cpu_target, cpu_model
ORDER BY suite, workload, dtype, gpu_target, cpu_target
