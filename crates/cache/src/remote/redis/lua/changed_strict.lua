-- {number, highest epoch, what registered() says}.
return {number, epoch, registered(nodes, ARGV[8])}
