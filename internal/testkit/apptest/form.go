package apptest

import (
	"fmt"
	"strings"
)

const formBoundary = "lksms-form"

// FormType is the Content-Type of Form.
const FormType = "multipart/form-data; boundary=" + formBoundary

// Form returns a form with a file and other fields. Without a field name, the form contains no file. fields contains names and values alternately.
func Form(field, name, content string, fields ...string) string {
	var form strings.Builder
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&form, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", formBoundary, fields[i], fields[i+1])
	}
	if field != "" {
		fmt.Fprintf(&form, "--%s\r\nContent-Disposition: form-data; name=%q; filename=%q\r\nContent-Type: application/octet-stream\r\n\r\n%s\r\n",
			formBoundary, field, name, content)
	}
	return form.String() + "--" + formBoundary + "--\r\n"
}
