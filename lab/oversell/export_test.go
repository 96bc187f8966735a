package oversell

import (
	"context"

	"conclave/lab/article004/zklatch/memtree"
)

// OnTree sets a function that gets the tree in memory before it is used.
func (c *Config) OnTree(f func(*memtree.Server)) { c.onTree = f }

// InsertGoods writes a row of goods_stock, as one does that has found none before.
func InsertGoods(ctx context.Context, dsn string, no int) error {
	db, err := openDB(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return (&goods{db: db, no: no}).insert(ctx, 10)
}
