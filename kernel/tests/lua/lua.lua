-- What an interpreter does to memory: many small objects that are collected, long strings that grow, coroutines with stacks of their own, files, pipes to other programs.

local tree = {}
for i = 1, 30000 do tree[i % 1000] = { left = tree[(i * 7) % 1000], number = i } end
local sum = 0
for i = 0, 999 do sum = sum + tree[i].number end
print("tree", sum)
tree = nil
collectgarbage()
print("collected", collectgarbage("count") < 1024)

local parts = {}
for i = 1, 20000 do parts[#parts + 1] = string.format("%05d", i) end
local text = table.concat(parts)
print("text", #text, text:sub(50001, 50010), select(2, text:gsub("99", "")))
print("doubled", #text:rep(20))

local function numbers(n)
    return coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end end)
end
local all = {}
for i = 1, 100 do all[i] = numbers(i) end
local squares = 0
for i = 1, 100 do for square in all[i] do squares = squares + square end end
print("coroutines", squares)

local function depth(n) if n == 0 then return 0 end return 1 + depth(n - 1) end
print("depth", depth(20000), (pcall(depth, 1e9)))

local name = os.tmpname()
local file = assert(io.open(name, "w+"))
for i = 1, 2000 do file:write(i, "\n") end
file:seek("set", 0)
local lines = 0
for line in file:lines() do lines = lines + tonumber(line) end
print("file", lines, file:seek("end"))
file:close()
print("removed", os.remove(name), (io.open(name)))

local pipe = io.popen("seq 1 1000 | sort -rn | head -3")
print("pipe", pipe:read("n", "n", "n"))
print("closed", pipe:close())
print("status", os.execute("exit 7"))
print("signal", os.execute("kill -TERM $$"))

table.sort(parts, function(a, b) return a:reverse() < b:reverse() end)
print("sorted", parts[1], parts[10000], parts[20000])
print("numbers", 7 // 2, 7 / 2, 2 ^ 53, math.maxinteger, math.pi, 1e308 * 10, string.format("%a", 0.1))
