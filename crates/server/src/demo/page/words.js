// The words of the page, in two languages.

const WORDS = {
  en: {
    language: "中文",
    choose: "Everything on this page is real: 200 people, their groups and a node in one program. Who are you? Open a second window, and be a friend to talk to.",
    filter: "Find a name",
    chats: "Chats",
    contacts: "Friends",
    leave: "Change name",
    back: "Back to the chats",
    nothing: "Choose a chat.",
    messages: "Messages",
    message: "Write a message",
    send: "Send",
    wire: "On the wire",
    wireAbout: "The frames of the socket, the newest first. One window has it for all of the same person.",
    cut: "Cut the connection",
    react: "React",
    recall: "Recall",
    recalled: (name) => `${name} recalled a message`,
    youRecalled: "You recalled a message",
    edited: "edited",
    sending: "sending",
    notSent: "not sent",
    again: "Try again",
    discard: "Discard",
    read: "read",
    sent: "sent",
    readBy: ([has, of]) => `Read by ${has} of ${of}`,
    online: "online",
    away: "offline",
    members: (count) => `${count} members`,
    typing: (name) => `${name} is typing`,
    unread: (count) => `${count} unread`,
    andOthers: ([names, count]) => `${names} and ${count} others`,
    newMessages: (count) => (count === 1 ? "1 new message" : `${count} new messages`),
    you: "You",
    connecting: "connecting",
    live: "live",
    offline: "not connected; trying again",
    failed: "The node refused the connection",
    suspended: "This user is suspended",
    signedOut: "signed out",
    closed: "closed",
    kept: "",
    full: "this device is full",
    memory: "nothing is kept on this device",
    resumed: (count) => `reconnected by cursor: ${count} missed`,
    relisted: (count) => `reconnected by positions: ${count} missed`,
    token: (user) => `This node takes tokens of its issuer. Give one of user ${user}: kith token make ${user}`,
    notToken: (user) => (user ? `This is no token of user ${user}.` : "This is no token of a user."),
    signIn: "Sign in",
    noPeople: "The people of the demo are not there. Start the node with kith demo.",
    event: { joined: "joined", left: "left", removed: "was removed", owner: "is the owner now", group: "The group has a new name" },
    bell: (count) => (count ? `Notices, ${count} unread` : "Notices, all read"),
    notices: "Notices",
    noNotices: "There are no notices.",
    readAll: "Mark all as read",
    markRead: "Mark as read",
    confirm: "Confirm",
    confirmed: "confirmed",
    unreadNotice: "unread",
    notes: "Notes to yourself",
  },
  zh: {
    language: "English",
    choose: "这个页面上的一切都是真的：200 个人、他们的群组，以及一个程序里的节点。你是谁？再打开一个窗口，换个身份和自己聊天。",
    filter: "查找姓名",
    chats: "聊天",
    contacts: "好友",
    leave: "换一个人",
    back: "返回聊天列表",
    nothing: "请选择一个聊天。",
    messages: "消息",
    message: "写消息",
    send: "发送",
    wire: "线路上",
    wireAbout: "套接字的帧，最新的在最前。同一用户的所有窗口共用一个套接字。",
    cut: "断开连接",
    react: "回应",
    recall: "撤回",
    recalled: (name) => `${name} 撤回了一条消息`,
    youRecalled: "你撤回了一条消息",
    edited: "已编辑",
    sending: "发送中",
    notSent: "未发送",
    again: "重试",
    discard: "丢弃",
    read: "已读",
    sent: "已发送",
    readBy: ([has, of]) => `${of} 人中 ${has} 人已读`,
    online: "在线",
    away: "离线",
    members: (count) => `${count} 位成员`,
    typing: (name) => `${name} 正在输入`,
    unread: (count) => `${count} 条未读`,
    andOthers: ([names, count]) => `${names} 等另外 ${count} 人`,
    newMessages: (count) => `${count} 条新消息`,
    you: "你",
    connecting: "正在连接",
    live: "实时",
    offline: "未连接，正在重试",
    failed: "节点拒绝了连接",
    suspended: "该用户已被停用",
    signedOut: "已退出登录",
    closed: "已关闭",
    kept: "",
    full: "设备空间已满",
    memory: "本设备不保存任何内容",
    resumed: (count) => `已按游标重连：补收 ${count} 条`,
    relisted: (count) => `已按位置重连：补收 ${count} 条`,
    token: (user) => `此节点使用签发者的令牌。请输入用户 ${user} 的令牌：kith token make ${user}`,
    notToken: (user) => (user ? `这不是用户 ${user} 的令牌。` : "这不是用户的令牌。"),
    signIn: "登录",
    noPeople: "没有找到演示用户。请用 kith demo 启动节点。",
    event: { joined: "加入了群组", left: "离开了群组", removed: "被移出群组", owner: "成为群主", group: "群组改名为" },
    bell: (count) => (count ? `公告，${count} 条未读` : "公告，全部已读"),
    notices: "公告",
    noNotices: "没有公告。",
    readAll: "全部标为已读",
    markRead: "标为已读",
    confirm: "确认",
    confirmed: "已确认",
    unreadNotice: "未读",
    notes: "给自己的笔记",
  },
};

let language = localStorage.getItem("kith-language") || (navigator.language.startsWith("zh") ? "zh" : "en");

// The word of a key; some take an argument.
export function say(key, value) {
  const word = WORDS[language][key];
  return typeof word === "function" ? word(value) : word;
}

export const locale = () => (language === "zh" ? "zh-CN" : "en-GB");

export function switchLanguage() {
  language = language === "zh" ? "en" : "zh";
  localStorage.setItem("kith-language", language);
  sayAll();
}

// Puts the words of the current language into the page.
export function sayAll() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  for (const element of document.querySelectorAll("[data-hint]")) element.placeholder = say(element.dataset.hint);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", say(element.dataset.label));
  for (const element of document.querySelectorAll(".language")) element.textContent = say("language");
}
