-- The paths in the file named by IDS, one a line, each of wrk's threads beginning at another.
local M = { list = {} }
for id in io.lines(os.getenv("IDS")) do M.list[#M.list + 1] = id end
-- Every thread loads this in the same second: the address of a new table tells them apart.
math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 2 ^ 31)
local place = math.random(#M.list)
M.next = function()
    place = place % #M.list + 1
    return M.list[place]
end
return M
