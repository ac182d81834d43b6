-- {number, highest epoch, no nodes}: a change that waits for none.
return {number, epoch, {}}
