-- Asks for records, each job in turn.
package.path = "bench/?.lua"
local ids = require("ids")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
request = function() return wrk.format("GET", ids.next()) end
