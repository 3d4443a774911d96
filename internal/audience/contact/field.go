package contact

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// field is a text field of a contact.
type field struct {
	name      string
	columns   []string // names of the column of this field in a list; the first name takes precedence
	of        func(c *Contact) **string
	maxLength int            // maximum length in characters
	form      *regexp.Regexp // pattern of valid texts; nil: every text without control characters
}

var (
	userIDForm = regexp.MustCompile(`^[0-9A-Za-z._@-]{1,64}$`)
	openIDForm = regexp.MustCompile(`^[0-9A-Za-z_-]*$`)
)

// fields are the text fields of a contact, except the user id. The contract has the same limits.
var fields = []field{
	{name: "name", columns: []string{"name", "姓名", "名字", "名称", "客户姓名"}, of: func(c *Contact) **string { return &c.Name }, maxLength: 100},
	{
		name: "phone", columns: []string{"phone", "phone_number", "mobile", "手机号", "手机号码", "手机", "电话号码", "电话", "号码", "接收号码", "联系电话", "移动电话"},
		of: func(c *Contact) **string { return &c.Phone }, maxLength: phone.Longest,
	},
	{
		name: "dingtalk_name", columns: []string{"dingtalk_name", "dingtalk", "钉钉", "钉钉账号", "钉钉用户名", "钉钉用户ID"},
		of: func(c *Contact) **string { return &c.DingTalkName }, maxLength: 100,
	},
	{
		name: "wechat_openid", columns: []string{"wechat_openid", "openid", "微信openid", "微信"},
		of: func(c *Contact) **string { return &c.WeChatOpenID }, maxLength: 100, form: openIDForm,
	},
	{
		name: "email", columns: []string{"email", "e-mail", "mail", "邮箱", "电子邮箱", "邮件", "电子邮件", "邮箱地址"},
		of: func(c *Contact) **string { return &c.Email }, maxLength: 254,
	},
}

// userIDColumns are the names of the column with user ids.
var userIDColumns = []string{"user_id", "userid", "用户ID", "用户编号", "用户标识", "工号", "编号", "账号"}

// AddressColumns returns the usual names of the column with the addresses on a channel, in a list that is no list of contacts. The first name takes precedence.
func AddressColumns(channel string) []string {
	_, columns := AddressField(channel)
	if channel == directory.SMS { // the API calls a number phone_number
		return append([]string{"phone_number"}, columns...) // a name that stands twice makes no difference
	}
	return columns
}

// AddressField returns the name of the field with the address of a contact on a channel, and the usual names of its column in a list of contacts. The first name
// takes precedence.
func AddressField(channel string) (name string, columns []string) {
	name = map[string]string{
		directory.SMS: "phone", directory.DingTalk: "dingtalk_name", directory.WeChat: "wechat_openid", directory.Email: "email",
	}[channel]
	for _, f := range fields {
		if f.name == name {
			return name, f.columns
		}
	}
	return "user_id", userIDColumns
}

// isUserID reports whether text can be a user id. Other texts cannot be used in the path of a URL.
func isUserID(text string) bool { return userIDForm.MatchString(text) && text != "." && text != ".." }

// checkText returns the fault of an invalid text of a field, or nil.
func (f field) checkText(text string) *fault.Error {
	switch {
	case utf8.RuneCountInString(text) > f.maxLength:
		return fault.InvalidField(f.name, fault.TooLong, f.maxLength)
	case f.form != nil && !f.form.MatchString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }):
		return fault.InvalidField(f.name, fault.BadCharacters, nil)
	}
	return nil
}

// normalise checks the addresses of a contact, converts the phone number to E.164, and removes invisible characters from the e-mail address. region applies to a
// number without a country code. nameOf returns the name that the request uses for a field. Fault: request.invalid.
func (c *Contact) normalise(region string, nameOf func(field string) string) error {
	var wrong fault.Fields
	if optional.Value(c.Phone) != "" {
		number, err := phone.Normalise(nameOf("phone"), *c.Phone, region)
		if err := wrong.Add(err); err != nil {
			return err //nolint:wrapcheck // the error is a fault
		}
		c.Phone = &number
	}
	if optional.Value(c.Email) != "" {
		email, err := address.Read(directory.Email, *c.Email, "")
		if err != nil {
			wrong.Invalid(nameOf("email"), fault.WrongFormat, nil)
		} else {
			c.Email = &email.E164
		}
	}
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}
