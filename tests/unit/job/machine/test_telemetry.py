"""Sampling, minutes, and everything that must not harm a job."""

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest import mock

import pytest

from batchmark_job.machine import telemetry
from batchmark_job.machine.nvml import visible_gpus
from batchmark_job.machine.telemetry import GpuMeter, ProcessMeter, Telemetry, meters_for
from batchmark_job.result.document import MetricSummary, parse_document
from tests.stand_ins.nvml import Card, Nvml, installed
from tests.stand_ins.workers import run_job_here as run_job
from tests.waiting import wait_for

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Scripted:
    """A meter with given readings, the last of them over and over."""

    def __init__(self, *readings):
        self.readings, self.reads = list(readings), 0

    def read(self):
        self.reads += 1
        return self.readings[min(self.reads, len(self.readings)) - 1]


class Broken:
    def read(self):
        raise OSError("the driver\nis gone")


@pytest.fixture
def use_cloudwatch(monkeypatch):
    """Gives the job a CloudWatch that does something first; returns what puts data there."""

    def use(before=None):
        cloudwatch = mock.Mock(**{"put_metric_data.side_effect": before})
        monkeypatch.setattr(telemetry, "_cloudwatch", lambda: cloudwatch)
        return cloudwatch.put_metric_data

    return use


def no_workers():
    return 0.0, 0


def start(*meters, namespace="Tests"):
    started = Telemetry(meters, namespace, "g5.xlarge")
    started.start()
    return started


def sampled_by(meter, times=1, namespace="Tests"):
    """Telemetry that has read a meter so often."""
    made = Telemetry([meter], namespace, "g5.xlarge")
    for _ in range(times):
        made._sample()
    return made


def set_clock(monkeypatch, times):
    left = iter(times)
    monkeypatch.setattr(telemetry, "datetime", SimpleNamespace(now=lambda zone: next(left)))


def statistics(sampled, metric):
    return [d["StatisticValues"] for d in sampled.datums() if d["MetricName"] == metric]


def test_gpu_metrics_are_those_of_the_first_gpu_that_torch_sees():
    first, other = Card(70, 2_000_000_000, 50_000, 1_500, celsius=40), Card(90)
    with installed(Nvml(GPU_aa=other, GPU_bb=other, GPU_cc=first), "cc", "aa"):
        process, gpu = meters_for(1, no_workers, visible_gpus()[0])
        read = gpu.read()
        first.utilization = None
        assert "GPUUtilization" not in gpu.read(), "though another GPU has it"
    assert isinstance(process, ProcessMeter)
    assert isinstance(gpu, GpuMeter)
    assert (read.pop("GPUUtilization"), read.pop("GPUMemoryUsed")) == (70, 2000)
    assert read == {"GPUPower": 50, "GPUClock": 1500, "GPUTemperature": 40}
    (meter,) = meters_for(1, no_workers, None)
    assert set(meter.read()) | set(meter.read()) == {"MemoryUsed", "CPUUtilization"}


def test_cpu_utilisation_is_the_share_of_the_compute_threads(monkeypatch):
    clock = SimpleNamespace(wall=100.0, used=40.0)
    asked = SimpleNamespace(monotonic=lambda: clock.wall, process_time=lambda: clock.used)
    monkeypatch.setattr(telemetry, "time", asked)
    workers = SimpleNamespace(seconds=0.0)
    meter = ProcessMeter(4, lambda: (workers.seconds, 5_000_000_000))
    assert "CPUUtilization" not in meter.read(), "no time has passed yet"
    clock.wall, clock.used, workers.seconds = 102.0, 41.0, 2.0
    assert meter.read()["CPUUtilization"] == 37.5
    clock.wall, clock.used = 103.0, 48.0
    assert meter.read()["CPUUtilization"] == 100, "other threads of the process count too"
    assert 5_000 < meter.read()["MemoryUsed"] < 1e6


def test_the_shortest_job_has_a_first_and_a_last_sample_and_others_some_until_stopped(monkeypatch):
    sampled = start(ProcessMeter(1, no_workers))
    sampled.stop()
    memory = statistics(sampled, "MemoryUsed")
    assert sum(minute["SampleCount"] for minute in memory) == 2
    assert 0 < memory[0]["Minimum"] <= memory[0]["Maximum"]
    (cpu,) = statistics(sampled, "CPUUtilization")
    assert cpu["SampleCount"] == 1
    assert 0 <= cpu["Minimum"] == cpu["Maximum"] <= 100
    monkeypatch.setattr(telemetry, "PERIOD_SECONDS", 0.001)
    meter = Scripted({"GPUUtilization": 50.0})
    sampled = start(meter)
    wait_for(lambda: meter.reads >= 10, "readings")
    sampled.stop()
    taken = sum(s["SampleCount"] for s in statistics(sampled, "GPUUtilization"))
    assert taken >= 10
    sampled.stop()
    assert sum(s["SampleCount"] for s in statistics(sampled, "GPUUtilization")) == taken


def test_a_minute_becomes_one_set_of_statistics(monkeypatch):
    set_clock(monkeypatch, [NOON + timedelta(seconds=seconds) for seconds in (5.5, 59.9, 60.0)])
    meter = Scripted({"CPUUtilization": 10.0}, {"CPUUtilization": 30.0}, {"CPUUtilization": 80.0})
    first, second = sampled_by(meter, 3).datums()
    assert first == {
        "MetricName": "CPUUtilization",
        "Dimensions": [{"Name": "Target", "Value": "g5.xlarge"}],
        "Timestamp": NOON,
        "Unit": "Percent",
        "StorageResolution": 60,
        "StatisticValues": {"SampleCount": 2, "Sum": 40, "Minimum": 10, "Maximum": 30},
    }
    assert second["Timestamp"] == NOON + timedelta(minutes=1)
    assert second["StatisticValues"] == {"SampleCount": 1, "Sum": 80, "Minimum": 80, "Maximum": 80}
    monkeypatch.undo()
    lacking = sampled_by(Scripted(dict.fromkeys(("GPUPower", "GPUClock", "GPUTemperature"), 1.0)))
    assert [datum["Unit"] for datum in lacking.datums()] == ["None"] * 3


def test_the_summary_is_over_the_whole_job(monkeypatch):
    set_clock(monkeypatch, [NOON, NOON, NOON + timedelta(minutes=1)])
    first = {"GPUPower": 100.0, "GPUClock": 1500.0}
    meter = Scripted(first, {"GPUPower": 40.0}, {"GPUPower": 160.0})
    assert sampled_by(meter, 0).summary() == ()
    power, clock = sampled_by(meter, 3, None).summary()
    range_of_power = {"minimum": 40, "mean": 100, "maximum": 160}
    assert power == MetricSummary(metric="GPUPower", unit="watts", samples=3, **range_of_power)
    assert (clock.metric, clock.unit, clock.samples) == ("GPUClock", "megahertz", 1)
    assert clock.minimum == clock.mean == clock.maximum == 1500


def test_a_meter_that_fails_ends_alone(capsys):
    sampled = start(Broken(), Scripted({"MemoryUsed": 1.0}))
    sampled.stop()
    assert {datum["MetricName"] for datum in sampled.datums()} == {"MemoryUsed"}
    warning = "batchmark-job: warning: Broken stopped early: OSError: the driver\n"
    assert capsys.readouterr().out == warning


def test_a_long_run_goes_out_in_calls_of_a_thousand_where_it_has_a_namespace(
    use_cloudwatch, monkeypatch
):
    put = use_cloudwatch()
    sampled_by(Scripted({"MemoryUsed": 1.0}), namespace=None).publish()
    assert not put.called
    minutes = [NOON + timedelta(minutes=number) for number in range(2000)]
    set_clock(monkeypatch, minutes)
    sampled = sampled_by(Scripted({"MemoryUsed": 1.0}), 2000)
    sampled.publish()
    sampled.publish()
    calls = [call.kwargs for call in put.mock_calls]
    assert [len(call["MetricData"]) for call in calls] == [1000, 1000]
    assert {call["Namespace"] for call in calls} == {"Tests"}
    sent = [datum["Timestamp"] for call in calls for datum in call["MetricData"]]
    assert sent == minutes


def test_a_cloudwatch_that_hangs_is_given_up(use_cloudwatch, monkeypatch, capsys):
    monkeypatch.setattr(telemetry, "PUBLISH_SECONDS", 0.05)
    release = threading.Event()
    use_cloudwatch(before=lambda **_: release.wait())
    start(Scripted({"MemoryUsed": 1.0})).publish()
    (hanging,) = [one for one in threading.enumerate() if one.name == "publish metrics"]
    release.set()
    assert hanging.daemon, "the job's process would wait for it"
    assert "warning: metrics not published: timed out after 0.05 s" in capsys.readouterr().out


def test_a_refusal_comes_after_the_document_and_costs_a_line(make_settings, use_cloudwatch, capsys):
    settings, there = make_settings(metrics_namespace="Tests"), []

    def refuse(**_):
        there.append(settings.output.path.exists())
        raise RuntimeError("AccessDenied:\nnot you")

    use_cloudwatch(before=refuse)
    assert run_job(settings) == 0
    assert there == [True]
    assert len(parse_document(settings.output.path.read_bytes()).measurements) == 2
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line.startswith("batchmark-job: warning: metrics not published: RuntimeError: Acc")
