-- Sends follow-ups of about 500 bytes, each job in turn.
package.path = "bench/?.lua"
local ids = require("ids")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
wrk.headers["Content-Type"] = "application/json"
local body = '{"prompt":"' .. string.rep("Add a test for the parser. ", 18) .. '"}'
request = function() return wrk.format("POST", ids.next() .. "/message", nil, body) end
