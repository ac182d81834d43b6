-- The nodes of an inbox without one of them, and without those whose time is over.
local function others(nodes, node)
    local kept = {}
    for ends, name in string.gmatch(nodes, '(%d+) (%S+)') do
        if tonumber(ends) > now and name ~= node then kept[#kept + 1] = ends .. ' ' .. name end
    end
    return kept
end
