-- What a million calls (or of your own jobs) and one whole job cost on each target, in each series' latest run, cheapest first
WITH jobs AS (
  SELECT *, run_id = first_value(run_id) OVER (series ORDER BY recorded_at DESC, run_id DESC) AS is_latest
  FROM history
  WHERE status = 'measured' AND price_usd_per_hour IS NOT NULL
    AND parameters NOT LIKE '%"metric":%' -- seconds, not what your own job told
  WINDOW series AS (PARTITION BY ${series}, purchase_option)
),
costs AS (
  SELECT
    ${series},
    purchase_option,
    count(*) AS jobs,
    avg(median_seconds) AS seconds_per_call, -- or per job of your own
    avg(price_usd_per_hour) AS price_usd_per_hour,
    avg(median_seconds * price_usd_per_hour) / 3600 * 1000000 AS usd_per_million_calls,
    avg(job_cost_usd) AS job_cost_usd
  FROM jobs
  WHERE is_latest
  GROUP BY ${series}, purchase_option
)
SELECT
  *,
  usd_per_million_calls / min(usd_per_million_calls) OVER (
    PARTITION BY suite, workload, parameters, dtype
  ) AS times_the_cheapest
FROM costs
ORDER BY suite, workload, parameters, dtype, usd_per_million_calls
