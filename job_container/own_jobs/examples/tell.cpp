// Reports one metric through the metrics file, and another on standard output.
#include <cstdlib>
#include <fstream>
#include <iostream>

int main() {
    const char* path = std::getenv("BATCHMARK_METRICS");
    std::ofstream file(path ? path : "/dev/null", std::ios::app);
    file << R"({"metric": "throughput", "unit": "images/s", "higher_is_better": true, "value": )" << 120.5 << "}\n";
    std::cout << R"(BATCHMARK_METRIC {"metric": "encoded", "unit": "MB", "higher_is_better": false, "value": )" << 3.25
              << '}' << std::endl;
}
