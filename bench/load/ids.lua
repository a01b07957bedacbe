-- Returns the paths in the file that IDS names, one per line, in turn. Each of wrk's threads starts at another path.
local M = { list = {} }
for id in io.lines(os.getenv("IDS")) do M.list[#M.list + 1] = id end
-- All threads load this file in the same second, so the address of a new table distinguishes them.
math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 2 ^ 31)
local place = math.random(#M.list)
M.next = function()
    place = place % #M.list + 1
    return M.list[place]
end
return M
