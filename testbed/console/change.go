package console

import (
	"reflect"
	"strings"
)

// change returns what differs between two states, by the JSON names of State's
// fields: a field as a whole or, if it is a map, its entries that differ, with nil
// for those that are gone.
func change(from, to State) map[string]any {
	out := map[string]any{}
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range b.NumField() {
		name, _, _ := strings.Cut(b.Type().Field(i).Tag.Get("json"), ",")
		was, is := a.Field(i), b.Field(i)
		if is.Kind() != reflect.Map {
			if !reflect.DeepEqual(was.Interface(), is.Interface()) {
				out[name] = is.Interface()
			}
			continue
		}
		if entries := changed(was, is); len(entries) > 0 {
			out[name] = entries
		}
	}
	return out
}

// changed returns the entries of a map that differ.
func changed(was, is reflect.Value) map[string]any {
	out := map[string]any{}
	for each := is.MapRange(); each.Next(); {
		old := was.MapIndex(each.Key())
		if !old.IsValid() || !reflect.DeepEqual(old.Interface(), each.Value().Interface()) {
			out[each.Key().String()] = each.Value().Interface()
		}
	}
	for each := was.MapRange(); each.Next(); {
		if !is.MapIndex(each.Key()).IsValid() {
			out[each.Key().String()] = nil
		}
	}
	return out
}
