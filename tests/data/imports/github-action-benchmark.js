window.BENCHMARK_DATA = {
  "lastUpdate": 1793527200000,
  "repoUrl": "https://github.example/o/r",
  "entries": {
    "Rust": [
      {
        "commit": {
          "author": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "committer": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "distinct": true,
          "id": "1111111111111111111111111111111111111111",
          "message": "change",
          "timestamp": "2026-10-31T10:00:00Z",
          "tree_id": "0000000000000000000000000000000000000000",
          "url": "https://github.example/o/r/commit/1111111111111111111111111111111111111111"
        },
        "date": 1793440800000,
        "tool": "cargo",
        "benches": [
          {
            "name": "fib_10",
            "value": 135,
            "unit": "ns/iter",
            "range": "\u00b1 24"
          },
          {
            "name": "fib_20",
            "value": 18149,
            "unit": "ns/iter",
            "range": "\u00b1 755"
          }
        ]
      },
      {
        "commit": {
          "author": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "committer": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "change",
          "timestamp": "2026-11-01T10:00:00Z",
          "tree_id": "0000000000000000000000000000000000000000",
          "url": "https://github.example/o/r/commit/2222222222222222222222222222222222222222"
        },
        "date": 1793527200000,
        "tool": "cargo",
        "benches": [
          {
            "name": "fib_10",
            "value": 140,
            "unit": "ns/iter",
            "range": "\u00b1 20"
          },
          {
            "name": "fib_20",
            "value": 0,
            "unit": "ns/iter",
            "range": "\u00b1 0"
          }
        ]
      }
    ],
    "Python": [
      {
        "commit": {
          "author": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "committer": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "change",
          "timestamp": "2026-11-01T10:00:00Z",
          "tree_id": "0000000000000000000000000000000000000000",
          "url": "https://github.example/o/r/commit/2222222222222222222222222222222222222222"
        },
        "date": 1793527200000,
        "tool": "pytest",
        "benches": [
          {
            "name": "tests/bench.py::test_fib",
            "value": 41513.27,
            "unit": "iter/sec",
            "range": "stddev: 0.0000014",
            "extra": "mean: 24.09 usec\nrounds: 24360"
          }
        ]
      }
    ],
    "Go": [
      {
        "commit": {
          "author": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "committer": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "change",
          "timestamp": "2026-11-01T10:00:00Z",
          "tree_id": "0000000000000000000000000000000000000000",
          "url": "https://github.example/o/r/commit/2222222222222222222222222222222222222222"
        },
        "date": 1793527200000,
        "tool": "go",
        "benches": [
          {
            "name": "BenchmarkFib10",
            "value": 325,
            "unit": "ns/op",
            "extra": "5000000 times\n8 procs"
          },
          {
            "name": "BenchmarkFib10 - B/op",
            "value": 16,
            "unit": "B/op",
            "extra": "5000000 times\n8 procs"
          },
          {
            "name": "BenchmarkFib10 - allocs/op",
            "value": 1,
            "unit": "allocs/op",
            "extra": "5000000 times\n8 procs"
          }
        ]
      }
    ],
    "Queries": [
      {
        "commit": {
          "author": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "committer": {
            "email": "a@example.com",
            "name": "A",
            "username": "a"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "change",
          "timestamp": "2026-11-01T10:00:00Z",
          "tree_id": "0000000000000000000000000000000000000000",
          "url": "https://github.example/o/r/commit/2222222222222222222222222222222222222222"
        },
        "date": 1793527200000,
        "tool": "customSmallerIsBetter",
        "benches": [
          {
            "name": "lookup",
            "value": 2.5,
            "unit": "ms"
          },
          {
            "name": "cache hits",
            "value": 98,
            "unit": "Percent"
          }
        ]
      }
    ]
  }
};
