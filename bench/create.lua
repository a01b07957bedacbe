-- Creates jobs for an agent that never answers.
wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
wrk.headers["Content-Type"] = "application/json"
local body = '{"agent":"idle","prompt":"' .. string.rep("Add a test for the parser. ", 18) .. '"}'
request = function() return wrk.format("POST", "/v2/agent/shop/job", nil, body) end
