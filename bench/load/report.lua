-- Prints the results as a line of JSON after wrk's report: the rate of successful answers, latencies in milliseconds.
done = function(summary, latency)
    local errors = summary.errors
    local bad = errors.status + errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format(
        '\n{"rate": %.3f, "bad": %d, "requests": %d, "p50": %.4f, "p99": %.4f, "p999": %.4f}\n',
        (summary.requests - errors.status) / (summary.duration / 1e6), bad, summary.requests,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
