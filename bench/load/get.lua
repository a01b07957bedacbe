-- Requests each path in turn.
package.path = "?.lua"
require("report")
local ids = require("ids")
if os.getenv("KEY") then wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY") end
request = function() return wrk.format("GET", ids.next()) end
