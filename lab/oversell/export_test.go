package oversell

import "conclave/elector/zklatch/memtree"

// OnTree has the tree in memory shown to a test, before it is used.
func (c *Config) OnTree(look func(*memtree.Server)) { c.onTree = look }
