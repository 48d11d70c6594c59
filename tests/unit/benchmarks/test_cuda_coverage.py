"""Which lines count as being for CUDA."""

from benchmarks.cuda_coverage import lines_for_cuda

SOURCE = """\
def plain(device):
    if device == "cuda":
        counts = True
    else:
        no = True
    if device == "cpu":
        no = True
    else:
        counts = True
    if device and device == Device.CUDA:
        counts = True
    if device != "cuda":
        no = True
    return device

def cuda_alone():
    return True

class ForBoth:
    devices = ("cpu", "cuda")

class ForCuda:
    devices = ("cuda",)
"""


def test_lines_under_a_condition_on_cuda_count_and_classes_and_functions_for_it():
    lines = SOURCE.splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "counts" in line}
    alone = {number for number, line in enumerate(lines, 1) if "def cuda_alone" in line}
    of_class = {number for number, line in enumerate(lines, 1) if "class ForCuda" in line}
    bodies = {number + 1 for number in alone | of_class}
    assert lines_for_cuda(SOURCE) == marked | alone | of_class | bodies
