-- Reads many windows, each as if a script of its own did. KEYS: the two of each window in turn. ARGV: token, how long a lease and
-- how long the window lasts, and for each window the number above which headers are read. Returns an answer for each; false where
-- it failed, which must not fail the others.
local answers = {}
for at = 1, #KEYS / 2 do
    local keys, arguments = { KEYS[2 * at - 1], KEYS[2 * at] }, { ARGV[3 + at], ARGV[1], ARGV[2], ARGV[3] }
    local is_read, answer = pcall(head, keys, arguments)
    answers[at] = is_read and answer
end
return answers
