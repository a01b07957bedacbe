-- The jobs whose ids are in the file named by IDS, each thread beginning at another.
local M = { list = {} }
for id in io.lines(os.getenv("IDS")) do M.list[#M.list + 1] = id end
math.randomseed(os.time())
local place = math.random(#M.list)
M.next = function()
    place = place % #M.list + 1
    return "/v2/agent/shop/job/" .. M.list[place]
end
return M
