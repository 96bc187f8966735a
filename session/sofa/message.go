package sofa

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The names that the original gives what a client leaves out.
const (
	DefaultZone = "DEFAULT_ZONE"
	segment     = "DefaultDataCenter" // of all lists: clients hide those of segments that they do not know
)

// model begins the names of all classes.
const model = "com.alipay.sofa.registry.core.model."

// classOf returns a class whose fields have these names, in the order of Java.
func classOf(name, fields string) *Class {
	return &Class{Name: model + name, Fields: strings.Fields(fields)}
}

// The classes that are sent.
var (
	registerResponse   = classOf("RegisterResponse", "success registId version refused message")
	syncConfigResponse = classOf("SyncConfigResponse", "retryInterval success message availableSegments")
	receivedData       = classOf("ReceivedData", "dataId group instanceId segment scope version localZone subscriberRegistIds data dataCount")
	receivedConfigData = classOf("ReceivedConfigData", "dataId group instanceId version configuratorRegistIds dataBox")
	dataBox            = classOf("DataBox", "data")
)

// Kind is what a register registers.
type Kind string

// The kinds.
const (
	Publisher    Kind = "PublisherRegister"
	Subscriber   Kind = "SubscriberRegister"
	Configurator Kind = "ConfiguratorRegister"
)

// Register registers something of a client, or withdraws it.
type Register struct {
	Kind                               Kind
	ID                                 string // chosen by the client, the same for as long as it lives
	DataID, Instance, Group, Zone, App string
	Version                            int64
	Withdrawn                          bool
	Scope                              string            // of a Subscriber
	Values                             []string          // of a Publisher
	Attributes                         map[string]string // such as its token
}

// Result answers a push.
type Result struct{ Success bool }

// SyncConfig asks for settings, and shows that its client lives.
type SyncConfig struct{}

var errUnknownClass = errors.New("this class is not one of the messages of clients")

// readers read the messages that a client sends, by class.
var readers = map[string]func(*Object) any{
	model + string(Publisher):    func(o *Object) any { return registerOf(Publisher, o) },
	model + string(Subscriber):   func(o *Object) any { return registerOf(Subscriber, o) },
	model + string(Configurator): func(o *Object) any { return registerOf(Configurator, o) },
	model + "Result":             func(o *Object) any { return Result{get[bool](o, "success")} },
	model + "SyncConfigRequest":  func(*Object) any { return SyncConfig{} },
}

// ParseMessage returns a Register, Result or SyncConfig.
func ParseMessage(f Frame) (any, error) {
	read := readers[f.Class]
	if read == nil {
		return nil, errUnknownClass
	}
	if f.Codec != hessian {
		return nil, fmt.Errorf("codec %d: want Hessian", f.Codec)
	}
	v, err := Decode(f.Content)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*Object)
	if !ok || o.Class.Name != f.Class {
		return nil, fmt.Errorf("the content is no %s", f.Class)
	}
	return read(o), nil
}

// get returns the value of a field, by name since each client has an order of its own: a
// zero value if the object has none of that name and type.
func get[T any](o *Object, field string) (out T) {
	if at := slices.Index(o.Class.Fields, field); at >= 0 {
		out, _ = o.Values[at].(T)
	}
	return out
}

func registerOf(kind Kind, o *Object) Register {
	text := func(field string) string { return get[string](o, field) }
	r := Register{
		Kind: kind, ID: text("registId"), DataID: text("dataId"), Instance: text("instanceId"), Group: text("group"), App: text("appName"),
		Zone: text("zone"), Scope: text("scope"), Version: get[int64](o, "version"), Withdrawn: text("eventType") == "UNREGISTER",
	}
	if r.Zone == "" {
		r.Zone = DefaultZone
	}
	if list := get[*List](o, "dataList"); list != nil {
		for _, v := range list.Values {
			if box, ok := v.(*Object); ok && box != nil {
				r.Values = append(r.Values, get[string](box, "data"))
			}
		}
	}
	if all := get[*Map](o, "attributes"); all != nil {
		for i, k := range all.Keys {
			name, isText := k.(string)
			if value, ok := all.Values[i].(string); ok && isText {
				put(&r.Attributes, name, value)
			}
		}
	}
	return r
}

// answer answers a register. One that is refused is not sent again.
func answer(id string, version int64, success, refused bool, message string) *Object {
	return &Object{registerResponse, []any{success, id, version, refused, message}}
}

// settings answer a SyncConfig.
func settings() *Object {
	return &Object{syncConfigResponse, []any{int32(0), true, nil, listOf(segment)}}
}

// listOf returns a list of texts.
func listOf(texts ...string) *List {
	l := &List{}
	for _, t := range texts {
		l.Values = append(l.Values, t)
	}
	return l
}

// push is the whole list of a subscriber's data, by zone.
func push(to Register, ids []string, version int64, zones map[string][]string) *Object {
	data, count := &Map{}, &Map{}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		boxes := &List{}
		for _, value := range zones[zone] {
			boxes.Values = append(boxes.Values, &Object{dataBox, []any{value}})
		}
		data.Keys, data.Values = append(data.Keys, zone), append(data.Values, boxes)
		count.Keys, count.Values = append(count.Keys, zone), append(count.Values, int32(len(boxes.Values)))
	}
	return &Object{receivedData, []any{to.DataID, to.Group, to.Instance, segment, to.Scope, version, to.Zone, listOf(ids...), data, count}}
}

// configure is a configuration value, or that there is none.
func configure(to Register, version int64, value string, set bool) *Object {
	var box any
	if set {
		box = &Object{dataBox, []any{value}}
	}
	return &Object{receivedConfigData, []any{to.DataID, to.Group, to.Instance, version, listOf(to.ID), box}}
}

// The zone of a publisher is in its values, behind a space, unless it is DefaultZone: so
// subscribers that know nothing of zones see a value as it was published, or find it
// before that.
const zoneBegins, zoneEnds = ` {"zone":"`, `"}`

// Value returns what is registered of a publisher's data.
func Value(data, zone string) string {
	if _, other := ZoneOf(data); zone == DefaultZone && other == DefaultZone && !strings.HasSuffix(data, zoneEnds) {
		return data
	}
	return data + zoneBegins + zone + zoneEnds
}

// ZoneOf returns the data and the zone of a value.
func ZoneOf(value string) (data, zone string) {
	if rest, ok := strings.CutSuffix(value, zoneEnds); ok {
		if at := strings.LastIndex(rest, zoneBegins); at >= 0 && ValidZone(rest[at+len(zoneBegins):]) {
			return rest[:at], rest[at+len(zoneBegins):]
		}
	}
	return value, DefaultZone
}

// ValidZone reports whether a zone can have that name.
func ValidZone(zone string) bool {
	return zone != "" && len(zone) <= 128 && !strings.ContainsAny(zone, `"\`)
}

// put puts an entry into a map that is made with its first one: most of the thousands of
// streams have none in most of their maps.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// remove removes an entry, and the map with the last one.
func remove[K comparable, V any](m *map[K]V, key K) {
	if delete(*m, key); len(*m) == 0 {
		*m = nil
	}
}
