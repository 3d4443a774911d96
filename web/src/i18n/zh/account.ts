export default {
  signIn: {
    hint: '请登录控制台',
    username: '用户名',
    password: '密码',
    button: '登录',
  },
  again: {
    title: '请重新登录',
    text: '会话已结束。用同一用户登录后回到原来的页面，已填写的内容不会丢失。',
  },
  nothing: {
    title: '没有可用的页面',
    text: '您的用户没有权限使用控制台的任何页面。请联系管理员。',
  },
  notFound: {
    title: '页面不存在',
    what: '没有这个页面，或者您没有权限打开它。',
    text: '请检查地址，或者从左侧导航中选择。',
    home: '回到首页',
  },
}
