package oversell_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	"conclave/lab/oversell"
	conclavesql "conclave/sql"
)

// store is a Store behind an HTTP server.
type store struct {
	*oversell.Store
	t   *testing.T
	url string
	get *http.Client

	failed func() // if not nil, is called when a purchase of load has failed
}

// serve opens a store that sells the article's 100 items without thinking.
func serve(t *testing.T, cfg oversell.StoreConfig) store {
	t.Helper()
	s, err := oversell.NewStore(t.Context(), cfg)
	require.NoError(t, err)
	server := httptest.NewServer(s)
	transport := &http.Transport{DisableKeepAlives: true} // each request has a connection, as ab's have
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		assert.NoError(t, s.Close(t.Context()))
	})
	return store{Store: s, t: t, url: server.URL, get: &http.Client{Transport: transport}}
}

func storeConfig(dsn, way string) oversell.StoreConfig {
	cfg := oversell.DefaultStoreConfig()
	cfg.DSN, cfg.Way, cfg.Think = dsn, way, 0
	return cfg
}

// ask sends one request and returns the reply. It may be called in a goroutine.
func (s store) ask(method, path string) (status int, body string) {
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	if !assert.NoError(s.t, err) {
		return 0, ""
	}
	response, err := s.get.Do(request)
	if !assert.NoError(s.t, err) {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	assert.NoError(s.t, err)
	return response.StatusCode, strings.TrimSpace(string(text))
}

// load sends n purchases at once and returns how many there were of each reply.
func (s store) load(n int) map[string]int {
	var mu sync.Mutex
	replies := map[string]int{}
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			status, body := s.ask(http.MethodGet, "/goods-stock/1")
			if !assert.Equal(s.t, http.StatusOK, status, body) && s.failed != nil {
				s.failed()
			}
			mu.Lock()
			defer mu.Unlock()
			replies[body]++
		})
	}
	group.Wait()
	return replies
}

// sold returns the counts as a client reads them.
func (s store) sold() (sales oversell.Sales) {
	s.t.Helper()
	status, body := s.ask(http.MethodGet, "/goods-stock")
	require.Equal(s.t, http.StatusOK, status, body)
	require.NoError(s.t, json.Unmarshal([]byte(body), &sales))
	return sales
}

// Article 004: 1,500 requests for 100 items by the article's endpoint. Without a
// lock more of them get the reply that they succeeded than the stock has lost.
// All requests read before one writes.
func TestArticleTheEndpointWithoutALock(t *testing.T) {
	cfg := storeConfig(embedded(t), "no-lock")
	const buyers = 1500
	gate, open := context.WithCancel(t.Context())
	defer open()
	var left atomic.Int64
	left.Store(buyers)
	cfg.AfterRead = func(context.Context, string, int) {
		if left.Add(-1) == 0 {
			open()
		}
		<-gate.Done()
	}
	s := serve(t, cfg)
	s.failed = open // one that cannot read is not waited for
	assert.Equal(t, map[string]int{"抢购书籍:1成功": buyers}, s.load(buyers), "each of them gets the reply that it succeeded")
	sales := s.sold()
	assert.Equal(t, buyers, sales.Requests)
	assert.Equal(t, buyers, sales.Succeeded)
	assert.Equal(t, 99, sales.Stock, "each has written what it read less one")
	assert.Equal(t, 1400, sales.Oversold)
	assert.Equal(t, buyers-1, sales.Lost)
	assert.Contains(t, sales.Verdict(), "oversold: 100 items, 1500 purchases succeeded")
	assert.False(t, sales.Broken(), "nothing else is promised")
}

// Article 004: with the lock exactly the stock is sold to the 1,500.
func TestArticleTheEndpointWithALock(t *testing.T) {
	s := serve(t, storeConfig(embedded(t), "zk-mutex"))
	assert.Equal(t, map[string]int{"抢购书籍:1成功": 100, "库存不够": 1400}, s.load(1500))
	sales := s.sold()
	assert.Equal(t, oversell.Sales{Way: "zk-mutex", GoodsNo: 1, Items: 100, Requests: 1500, Succeeded: 100, SoldOut: 1400, Deducted: 100}, sales)
	assert.Contains(t, sales.Verdict(), "not oversold")
}

// Each way that must not oversell sells what there is.
func TestStore_Ways(t *testing.T) {
	for _, way := range oversell.StoreWays() {
		t.Run(way, func(t *testing.T) {
			cfg := storeConfig(embedded(t), way)
			cfg.Items = 5
			s := serve(t, cfg)
			s.load(30)
			sales := s.sold()
			assert.Equal(t, 30, sales.Succeeded+sales.SoldOut+sales.Failed, "%+v", sales)
			assert.False(t, sales.Broken(), sales.Verdict())
			if way != "no-lock" && way != "rowlock-article-threads" {
				assert.Equal(t, 5, sales.Succeeded)
				assert.Zero(t, sales.Stock)
			}
		})
	}
}

func TestStore_Requests(t *testing.T) {
	s := serve(t, storeConfig(embedded(t), "zk-mutex"))
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{http.MethodGet, "/goods-stock/2", http.StatusOK, "指定商品不存在"},
		{http.MethodGet, "/goods-stock/book", http.StatusBadRequest, `"book"`},
		{http.MethodGet, "/goods-stock/99999999999", http.StatusBadRequest, "want an integer"},
		{http.MethodPost, "/goods-stock/1", http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "/goods", http.StatusNotFound, ""},
		{http.MethodGet, "/goods-stock/1", http.StatusOK, "抢购书籍:1成功"},
	} {
		status, body := s.ask(c.method, c.path)
		assert.Equal(t, c.status, status, c.path)
		assert.Contains(t, body, c.want, c.path)
	}
	sales := s.sold()
	assert.Equal(t, 2, sales.Requests)
	assert.Equal(t, 1, sales.Unknown)
	assert.Equal(t, 99, sales.Stock)
}

// A request that ends while it waits buys nothing, and does not block the next
// one. One that has its turn is finished.
func TestStore_RequestsThatEnd(t *testing.T) {
	for _, way := range []string{"zk-mutex", "rowlock", "term"} {
		t.Run(way, func(t *testing.T) {
			reading, read := make(chan struct{}), make(chan struct{})
			var once sync.Once
			cfg := storeConfig(embedded(t), way)
			cfg.AfterRead = func(context.Context, string, int) {
				once.Do(func() { close(reading); <-read })
			}
			s, err := oversell.NewStore(t.Context(), cfg)
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close(t.Context())) }()
			buy := func(ctx context.Context) <-chan *httptest.ResponseRecorder {
				done := make(chan *httptest.ResponseRecorder, 1)
				go func() {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/goods-stock/1", http.NoBody))
					done <- w
				}()
				return done
			}
			ctx, cancel := context.WithCancel(t.Context())
			first := buy(ctx)
			select {
			case <-reading:
			case w := <-first:
				require.Fail(t, "the first request has read nothing", "%d %s", w.Code, w.Body)
			}
			second := buy(ctx)
			cancel()
			assert.Equal(t, http.StatusServiceUnavailable, (<-second).Code)
			close(read)
			assert.Contains(t, (<-first).Body.String(), "成功")
			assert.Contains(t, (<-buy(t.Context())).Body.String(), "成功", "the lock is free")
			sales, err := s.Sales(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 2, sales.Succeeded)
			assert.Equal(t, 1, sales.GivenUp)
			assert.Equal(t, 98, sales.Stock)
		})
	}
}

// The table is the article's. A row of the same number is not overwritten, other
// rows are not touched, and the store's row is removed at its end.
func TestStore_TableGoodsStock(t *testing.T) {
	server := mysqltest.NewEmbedded(t)
	db, err := conclavesql.Open(server.DSN, conclavesql.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	defer db.Close()
	cfg := storeConfig(server.DSN, "no-lock")
	s, err := oversell.NewStore(t.Context(), cfg)
	require.NoError(t, err)
	var goods, stock, active int
	require.NoError(t, db.QueryRow(t.Context(), "SELECT goods_no, stock, isActive FROM goods_stock", nil, &goods, &stock, &active))
	assert.Equal(t, []int{1, 100, 1}, []int{goods, stock, active})

	_, err = oversell.NewStore(t.Context(), cfg)
	require.ErrorContains(t, err, "goods_no 1 already")
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	require.ErrorContains(t, oversell.InsertGoods(interrupted, server.DSN, 1), "more than one row", "two that had found none before")
	cfg.GoodsNo = 2
	second, err := oversell.NewStore(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, second.Close(t.Context()))
	sales, err := s.Sales(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 100, sales.Stock)

	_, err = db.Exec(t.Context(), "DELETE FROM goods_stock")
	require.NoError(t, err)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/goods-stock/1", http.NoBody))
	assert.Equal(t, "指定商品不存在\n", w.Body.String(), "the row was removed")
	require.NoError(t, s.Close(t.Context()))
	var rows int
	require.NoError(t, db.QueryRow(t.Context(), "SELECT COUNT(*) FROM goods_stock", nil, &rows))
	assert.Zero(t, rows)
}

func TestNewStore_RefusesInvalidConfig(t *testing.T) {
	for want, change := range map[string]func(*oversell.StoreConfig){
		"DSN":            func(c *oversell.StoreConfig) { c.DSN = "" },
		"items":          func(c *oversell.StoreConfig) { c.Items = 0 },
		"workers":        func(c *oversell.StoreConfig) { c.Workers = 1 },
		"think":          func(c *oversell.StoreConfig) { c.Think = -1 },
		"goods number 0": func(c *oversell.StoreConfig) { c.GoodsNo = 0 },
		"magic":          func(c *oversell.StoreConfig) { c.Way = "magic" },
		"term-paused":    func(c *oversell.StoreConfig) { c.Way = "term-paused" },
	} {
		cfg := storeConfig("root@tcp(127.0.0.1:1)/nowhere", "no-lock")
		change(&cfg)
		_, err := oversell.NewStore(t.Context(), cfg)
		assert.ErrorIs(t, err, oversell.ErrConfig)
		assert.ErrorContains(t, err, want)
	}
	_, err := oversell.NewStore(t.Context(), storeConfig("root:secret@tcp(127.0.0.1:1)/nowhere", "no-lock"))
	require.ErrorContains(t, err, "goods_stock", "the database cannot be reached")
	assert.NotContains(t, err.Error(), "secret")
}
