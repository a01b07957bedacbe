-- The framework's bare answer.
request = function() return wrk.format("GET", "/healthz") end
