package oversell

import "conclave/lab/article004/zklatch/memtree"

// OnTree sets a function that gets the tree in memory before it is used.
func (c *Config) OnTree(f func(*memtree.Server)) { c.onTree = f }
