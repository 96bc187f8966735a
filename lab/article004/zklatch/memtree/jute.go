package memtree

import (
	"encoding/binary"
	"errors"

	"github.com/go-zookeeper/zk"
)

// The part of ZooKeeper's wire format (jute) that its clients need here: big-endian
// integers; strings and buffers preceded by their length, -1 for none.

// errShort is returned for a packet that ends before its fields do.
var errShort = errors.New("packet is too short")

// decoder reads a packet. After an error it reads zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err = errShort
		return make([]byte, 8)
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) int() int32  { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) long() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }
func (d *decoder) bool() bool  { return d.take(1)[0] != 0 }
func (d *decoder) bytes() []byte {
	n := d.int()
	if n < 0 {
		return nil
	}
	return d.take(int(n))
}
func (d *decoder) string() string { return string(d.bytes()) }

// strings reads a list.
func (d *decoder) strings() (list []string) {
	for n := d.int(); n > 0 && d.err == nil; n-- {
		list = append(list, d.string())
	}
	return list
}

// encoder writes a packet, with space for its length in front.
type encoder []byte

func newPacket() encoder { return make(encoder, 4, 128) }

func (e *encoder) int(v int32)     { *e = binary.BigEndian.AppendUint32(*e, uint32(v)) }
func (e *encoder) long(v int64)    { *e = binary.BigEndian.AppendUint64(*e, uint64(v)) }
func (e *encoder) bytes(v []byte)  { e.int(int32(len(v))); *e = append(*e, v...) }
func (e *encoder) string(v string) { e.int(int32(len(v))); *e = append(*e, v...) }

// names writes the names of a node's children, in no order.
func (e *encoder) names(n *node) {
	e.int(int32(len(n.children)))
	for name := range n.children {
		e.string(name)
	}
}

// stat writes a node's Stat.
func (e *encoder) stat(n *node) {
	s := n.Stat
	s.DataLength, s.NumChildren = int32(len(n.data)), int32(len(n.children))
	s.Cversion = 2*n.made - s.NumChildren
	*e, _ = binary.Append(*e, binary.BigEndian, s) // cannot fail: each field has a size
}

// packet returns the packet with its length.
func (e encoder) packet() []byte {
	binary.BigEndian.PutUint32(e, uint32(len(e)-4))
	return e
}

// The codes of requests and of watch events.
const (
	opCreate          = 1
	opDelete          = 2
	opGetData         = 4
	opSetData         = 5
	opPing            = 11
	opChildren        = 12
	opCreateContainer = 19
	opSetWatches      = 101
	opClose           = -11
	xidEvent          = -1
	stateSync         = 3
	eventDeleted      = 2
	eventChanged      = 3
	eventChildren     = 4
	codeMarshal       = -5
	codeUnknownOp     = -6
	codeArguments     = -8
)

// code returns the protocol's code of an error.
func code(err error) int32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, zk.ErrNoNode):
		return -101
	case errors.Is(err, zk.ErrBadVersion):
		return -103
	case errors.Is(err, zk.ErrNodeExists):
		return -110
	case errors.Is(err, zk.ErrNotEmpty):
		return -111
	case errors.Is(err, errUnknownOp):
		return codeUnknownOp
	case errors.Is(err, errShort):
		return codeMarshal
	}
	return codeArguments
}
