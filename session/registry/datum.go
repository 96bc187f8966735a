package registry

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// datum is the content of a topic at a version. What is sent of it is never
// changed once made, and is shared by all its receivers.
type datum struct {
	*list.List
	message *wirev1.Datum // with the list

	encoded    []byte                       // the field of a Push with the message; see encode
	deltas     map[contentKey]*wirev1.Delta // from earlier contents; see since
	publishers map[uint32]bool              // of the list; made by set
}

func newDatum(key string, version int64, l *list.List) *datum {
	return &datum{List: l, message: &wirev1.Datum{DataInfoId: key, Version: version, Values: l.Values, Publishers: l.Publishers}}
}

// content returns the list, nil if d is.
func (d *datum) content() *list.List {
	if d == nil {
		return nil
	}
	return d.List
}

func (d *datum) version() int64 { return d.message.Version }

func (d *datum) count() int { return len(d.Values) }

// size estimates the bytes of the message on the wire.
func (d *datum) size() int { return 64 + len(d.message.DataInfoId) + d.Size() }

// set returns the publishers of the list.
func (d *datum) set() map[uint32]bool {
	if d.publishers == nil {
		d.publishers = make(map[uint32]bool, len(d.Publishers))
		for _, p := range d.Publishers {
			d.publishers[p] = true
		}
	}
	return d.publishers
}

// contentKey identifies what a subscriber has.
type contentKey struct {
	version int64
	hash    uint64
}

// deltasKept is from how many earlier contents a datum has deltas for clients that
// read slowly. One that has another content is sent the whole list.
const deltasKept = 8

// since returns the delta from base to d, or nil if the whole list is to be sent.
// It is made once for all subscribers that have that base. The contents of slow
// clients, for whom an earlier push waits, are limited; the others all have the one
// before d.
func (d *datum) since(base *datum, slow bool) *wirev1.Delta {
	if base == nil || d.Size() < list.DeltaFrom {
		return nil
	}
	key := contentKey{base.version(), base.Hash()}
	delta, made := d.deltas[key]
	if made || slow && len(d.deltas) >= deltasKept {
		return delta
	}
	if delta = base.DeltaTo(d.List); delta != nil {
		delta.DataInfoId, delta.Version, delta.BaseVersion = d.message.DataInfoId, d.version(), key.version
	}
	if d.deltas == nil {
		d.deltas = map[contentKey]*wirev1.Delta{}
	}
	d.deltas[key] = delta
	return delta
}

// pushDatum is the number of the field datum of a Push.
var pushDatum = (&wirev1.Push{}).ProtoReflect().Descriptor().Fields().ByName("datum").Number()

// encode encodes the whole list once for several receivers, and reports whether it has.
// To keep the encoding of a small list costs more than to encode it for each.
func (d *datum) encode() bool {
	if d.encoded == nil && d.Size() >= list.DeltaFrom {
		b, err := proto.Marshal(d.message)
		if err != nil {
			return false // it is encoded for each receiver, and the error is that of its stream
		}
		field := protowire.AppendTag(make([]byte, 0, len(b)+16), pushDatum, protowire.BytesType)
		d.encoded = protowire.AppendBytes(field, b)
	}
	return d.encoded != nil
}
