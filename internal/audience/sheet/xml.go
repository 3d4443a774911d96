package sheet

import (
	"encoding/xml"
	"errors"
	"io"

	"lksms/internal/platform/fault"
)

// xmlReader reads the XML tokens of a part of a workbook. It removes the namespaces from names, because different variants of the format use different
// namespaces.
type xmlReader struct {
	source *budgetReader
	tokens *xml.Decoder
}

func newXML(part io.Reader) *xmlReader {
	source := &budgetReader{Reader: part}
	return &xmlReader{source, xml.NewDecoder(source)}
}

// next returns the next token, which is valid until the next call. Errors: io.EOF, errTokenTooLong, errors of the part, and the fault damaged.
func (x *xmlReader) next() (xml.Token, error) {
	x.source.allow(maxToken)
	token, err := x.tokens.RawToken()
	switch {
	case err == nil || err == io.EOF || errors.Is(err, errTokenTooLong): //nolint:errorlint // the decoder returns io.EOF unwrapped
		return token, err //nolint:wrapcheck // callers compare these errors
	case x.source.failed != nil:
		return nil, x.source.failed
	default:
		return nil, wrong(fault.Damaged, nil) // not XML, or XML of another version or encoding
	}
}

// each calls do for every element of a part. path contains the names of the enclosing elements.
func (x *xmlReader) each(do func(path []string, element xml.StartElement)) error {
	var path []string
	for {
		token, err := x.next()
		switch {
		case errors.Is(err, io.EOF) && len(path) == 0:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, errTokenTooLong):
			return wrong(fault.Damaged, nil)
		case err != nil:
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(path) == maxPath {
				return wrong(fault.Damaged, nil)
			}
			do(path, token)
			path = append(path, token.Name.Local)
		case xml.EndElement:
			if len(path) == 0 || path[len(path)-1] != token.Name.Local {
				return wrong(fault.Damaged, nil)
			}
			path = path[:len(path)-1]
		}
	}
}

// maxPath is the maximum nesting depth of elements.
const maxPath = 100

// attribute returns an attribute of an element. It returns an empty string if the attribute is missing.
func attribute(element xml.StartElement, name string) string {
	for _, a := range element.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
