-- Posts the text in BODY to each path in turn.
package.path = "?.lua"
require("report")
local ids = require("ids")
if os.getenv("KEY") then wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY") end
if os.getenv("ACCEPT") then wrk.headers["Accept"] = os.getenv("ACCEPT") end
wrk.headers["Content-Type"] = "application/json"
local body = os.getenv("BODY")
request = function() return wrk.format("POST", ids.next(), nil, body) end
