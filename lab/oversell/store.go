package oversell

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// StoreConfig configures a Store. Of Config, DSN is required, and Buyers, Only, Limit and
// Progress have no effect; the requests are the buyers.
type StoreConfig struct {
	Config
	Way     string // the name of one of StoreWays
	GoodsNo int    // number of the goods that it sells
}

// DefaultStoreConfig returns the article's shop without a lock, with a shorter
// time to think.
func DefaultStoreConfig() StoreConfig {
	return StoreConfig{Config: DefaultConfig(), Way: "no-lock", GoodsNo: 1}
}

// Validate reports the first invalid field.
func (c StoreConfig) Validate() error {
	if _, err := c.way(); err != nil {
		return err
	}
	if c.GoodsNo < 1 || c.GoodsNo > math.MaxInt32 {
		return fmt.Errorf("%w: goods number %d (want 1 to %d)", ErrConfig, c.GoodsNo, math.MaxInt32)
	}
	c.Buyers = c.Items + 1 // as many as are valid
	return c.Config.Validate()
}

func (c StoreConfig) way() (Way, error) {
	for _, w := range Ways() {
		if w.Name == c.Way && !w.Paused {
			return w, nil
		}
	}
	return Way{}, fmt.Errorf("%w: unknown way %q of a served shop (want %s)", ErrConfig, c.Way, strings.Join(StoreWays(), ", "))
}

// StoreWays returns the names of the ways that a Store can sell in: all but
// those that freeze a buyer.
func StoreWays() (list []string) {
	for _, w := range Ways() {
		if !w.Paused {
			list = append(list, w.Name)
		}
	}
	return list
}

// Store is the shop of article 004 as an HTTP server (GoodsStockController in
// article 004). It sells one kind of goods, whose stock is a row of the
// article's own table goods_stock:
//
//	GET /goods-stock/{goodsNo}   buy one; the reply is one of the article's four sentences
//	GET /goods-stock             what was sold so far ([Sales], as JSON)
//
// Each request reads the stock, thinks, and writes it back less one, in its turn
// of the way. It is safe for concurrent use.
type Store struct {
	cfg  StoreConfig
	sale *sale
	row  *goods // nil until its row has been written
	mux  http.ServeMux
	next atomic.Uint64 // the next request's number, which also selects its worker

	mu    sync.Mutex // guards sales
	sales Sales
}

// NewStore creates missing tables, writes the stock and opens the way's lock. It
// is an error if goods_stock has a row with the number of the goods already.
func NewStore(ctx context.Context, cfg StoreConfig) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	way, err := cfg.way()
	if err != nil {
		return nil, err
	}
	var nonce [4]byte
	crand.Read(nonce[:])
	s := &Store{cfg: cfg, sale: &sale{cfg: cfg.Config, way: way, late: true}}
	s.sales = Sales{Way: way.Name, GoodsNo: cfg.GoodsNo, Items: cfg.Items}
	s.mux.HandleFunc("GET /goods-stock/{goodsNo}", s.purchase)
	s.mux.HandleFunc("GET /goods-stock", s.report)
	if err := s.open(ctx, "lab-"+hex.EncodeToString(nonce[:])); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, lock string) error {
	if err := s.sale.openWorkers(lock); err != nil {
		return err
	}
	row := &goods{db: s.sale.workers[0].shop.db, no: s.cfg.GoodsNo}
	if err := row.open(ctx, s.cfg.Items); err != nil {
		return err
	}
	s.row = row
	for _, w := range s.sale.workers {
		w.stock = &goods{db: w.shop.db, no: row.no, id: row.id}
	}
	return s.sale.openQueue(ctx)
}

// Close deletes the row of the goods and ends the lock. Call it when no request is in
// progress.
func (s *Store) Close(ctx context.Context) error {
	var err error
	if s.row != nil {
		err = s.row.close(context.WithoutCancel(ctx))
	}
	return errors.Join(err, s.sale.close(ctx))
}

// ServeHTTP handles a purchase or a request for the counts. A request whose
// context ends before its turn is answered with 503 and buys nothing; one that
// has its turn is finished.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// errGivenUp reports that the client closed its connection, or that the server
// was stopped, before the request had its turn.
var errGivenUp = errors.New("the request ended before its turn")

// purchase buys one item (purchase in article 004).
func (s *Store) purchase(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	no, err := strconv.ParseInt(r.PathValue("goodsNo"), 10, 32)
	if err != nil {
		http.Error(w, fmt.Sprintf("invalid goods number %q (want an integer)", r.PathValue("goodsNo")), http.StatusBadRequest)
		return
	}
	s.count(func(n *Sales) { n.Requests++ })
	if int(no) != s.cfg.GoodsNo {
		fmt.Fprintln(w, s.reply(unknown))
		return
	}
	reply, err := s.inTurn(r.Context())
	switch {
	case err == nil:
		fmt.Fprintln(w, reply)
	case errors.Is(err, errGivenUp):
		s.count(func(n *Sales) { n.GivenUp++ })
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		s.count(func(n *Sales) { n.Errors++ })
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// inTurn waits for the request's turn and buys. When the turn has begun, the end
// of ctx has no effect: a lock that is not released would block the others.
func (s *Store) inTurn(ctx context.Context) (reply string, err error) {
	turn, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	waiting := context.AfterFunc(ctx, func() { cancel(errGivenUp) })
	defer waiting()
	n := s.next.Add(1)
	worker := s.sale.workers[n%uint64(len(s.sale.workers))]
	var failed error
	err = s.sale.queue.serve(turn, worker, func(ctx context.Context, h hold) error {
		if !waiting() {
			return errGivenUp
		}
		var result outcome
		if result, _, failed = s.sale.purchase(ctx, worker, int(n), h); failed == nil {
			reply = s.reply(result)
		}
		return failed
	})
	switch {
	case context.Cause(turn) != nil:
		return "", errGivenUp
	case reply != "":
		return reply, nil // an error of the lock's release does not undo the purchase
	}
	return "", err
}

// reply counts an outcome, and returns the reply to it.
func (s *Store) reply(result outcome) (text string) {
	s.count(func(n *Sales) {
		switch result {
		case bought:
			n.Succeeded++
			text = fmt.Sprintf("抢购书籍:%d成功", s.cfg.GoodsNo)
		case soldOut:
			n.SoldOut++
			text = "库存不够" // not enough stock
		case unknown: // the row was deleted by another client of the database
			n.Unknown++
			text = "指定商品不存在" // there are no such goods
		default: // before the write the lock was lost or the row removed
			n.Failed++
			text = "抢购失败" // the purchase failed
		}
	})
	return text
}

// count changes the counts, with mu held.
func (s *Store) count(change func(*Sales)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.sales)
}

// report answers with the counts.
func (s *Store) report(w http.ResponseWriter, r *http.Request) {
	sales, err := s.Sales(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(sales) // an error: the client has gone
}

// Sales returns the counts so far, and the stock in the database. While requests
// are in progress the two are not of the same moment.
func (s *Store) Sales(ctx context.Context) (Sales, error) {
	stock, err := s.row.read(ctx)
	if err != nil {
		return Sales{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sales := s.sales
	sales.Stock = stock
	sales.Deducted = sales.Items - stock
	sales.Oversold = max(0, sales.Succeeded-sales.Items)
	sales.Lost = sales.Succeeded - sales.Deducted
	return sales, nil
}
