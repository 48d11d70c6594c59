-- How noisy each series is, within a job and from job to job: a regression smaller than this can't be told
SELECT
  ${series},
  count(*) AS jobs,
  count(DISTINCT run_id) AS runs,
  avg(relative_spread) AS spread_within_jobs,
  stddev_samp(median_seconds) / avg(median_seconds) AS spread_between_jobs,
  min(median_seconds) AS fastest_seconds,
  max(median_seconds) AS slowest_seconds,
  max(recorded_at) AS latest_recorded_at
FROM history
WHERE status = 'measured' AND parameters NOT LIKE '%"metric":%' -- seconds, not what your own job told
GROUP BY ${series}
HAVING count(*) > 1
ORDER BY spread_between_jobs DESC
